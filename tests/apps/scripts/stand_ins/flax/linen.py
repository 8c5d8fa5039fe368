import dataclasses

import numpy as np

SCOPES = []  # of the modules that are at work; each is the parameters of one of them


def compact(method):
    return method


class Module:
    def __init_subclass__(cls):
        dataclasses.dataclass(cls)

    def init(self, key, *inputs):
        return {"params": self._run({"": key}, inputs)[1]}

    def apply(self, variables, *inputs):
        return self._run(dict(variables["params"]), inputs)[0]

    def _run(self, params, inputs):
        SCOPES.append(params)
        try:
            given = self(*inputs)
        finally:
            SCOPES.pop()
        return given, {name: value for name, value in params.items() if name}


class Dense(Module):
    features: int

    def __call__(self, x):
        params = SCOPES[-1]
        if "" in params:  # the key of `init`
            kernel = params[""].normal(size=(x.shape[-1], self.features)).astype(np.float32)
            params["Dense_0"] = {"kernel": kernel, "bias": np.zeros(self.features, np.float32)}
        own = params["Dense_0"]
        return np.asarray(x, np.float32) @ own["kernel"] + own["bias"]
