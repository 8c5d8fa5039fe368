"""Defects of SAC and TD3."""

from __future__ import annotations

from traps.plant import plant

DISTRIBUTIONS = "policies/distributions.py"
OFF_POLICY = "algorithms/off_policy.py"
CRITICS = "algorithms/critics.py"
SAC_LOSS = "algorithms/sac/loss.py"
SAC = "algorithms/sac/torch_sac.py"
TD3_LOSS = "algorithms/td3/loss.py"
TD3 = "algorithms/td3/torch_td3.py"

PLANTS = (
    plant(
        43,
        "the target entropy has the wrong sign",
        (SAC_LOSS, "return -float(space.size)", "return float(space.size)"),
    ),
    plant(
        43,
        "the target entropy is the same for any number of action entries",
        (SAC_LOSS, "return -float(space.size)", "return -1.0"),
    ),
    plant(
        43,
        "the temperature's gradient goes through alpha instead of log alpha",
        (
            SAC,
            "temperature.step(gradient, optimizer.learning_rate, self.group)",
            "temperature.step(gradient * alpha, optimizer.learning_rate, self.group)",
        ),
    ),
    plant(
        44,
        "the log probability lacks the correction by tanh",
        (
            DISTRIBUTIONS,
            "torch.tanh(u), (normal - self._log_slope(u)).sum(dim=-1)",
            "torch.tanh(u), normal.sum(dim=-1)",
        ),
    ),
    plant(
        44,
        "the correction by tanh loses its digits for large arguments",
        (
            DISTRIBUTIONS,
            "2 * (LOG_TWO - u - softplus(-2 * u))",
            "torch.log(1 - torch.tanh(u).square() + 1e-6)",
        ),
    ),
    plant(
        44,
        "the log probability does not know the scale of actions",
        (DISTRIBUTIONS, "self.half_width.log() + 2 * (LOG_TWO", "0 * self.half_width.log() + 2 * (LOG_TWO"),
    ),
    plant(
        45,
        "the environment gets the network's actions unscaled",
        (
            OFF_POLICY,
            "envs.step(self.scale_actions(actions), buffer.following)",
            "envs.step(actions, buffer.following)",
        ),
    ),
    plant(
        45,
        "the buffer gets the environment's actions",
        (
            OFF_POLICY,
            "self.store(actions, result.rewards, result.endings)",
            "self.store(self.scale_actions(actions), result.rewards, result.endings)",
        ),
    ),
    plant(
        46,
        "target actions leave the bounds",
        (TD3_LOSS, "return (actions + scaled).clamp(-1, 1)", "return actions + scaled"),
    ),
    plant(
        46,
        "target noise is not cut",
        (TD3_LOSS, "if largest is not None:", "if largest is not None and largest < 0:"),
    ),
    plant(
        46,
        "target noise is in the environment's units",
        (
            TD3,
            "settings.target_noise, settings.target_noise_clip",
            "settings.target_noise / 2, settings.target_noise_clip",
        ),
    ),
    plant(
        47,
        "targets follow before the actor has stepped",
        (
            TD3,
            (
                'figures["losses/actor_loss"] = self.update_actor(batch.observations)\n'
                "            tensors.target.follow(self.td3.tau)\n"
            ),
            (
                "tensors.target.follow(self.td3.tau)\n"
                '            figures["losses/actor_loss"] = self.update_actor(batch.observations)\n'
            ),
        ),
    ),
    plant(
        47,
        "the critics' targets follow after every update",
        (
            TD3,
            "            critics.target.follow(self.td3.tau)\n",
            "        critics.target.follow(self.td3.tau)\n",
        ),
    ),
    plant(
        47,
        "the delay of the policy is counted by steps of the environments",
        (
            "algorithms/td3/algorithm.py",
            "return (self.update_count + 1) % self.td3.policy_interval == 0",
            "return (self.buffer.total_rows + 1) % self.td3.policy_interval == 0",
        ),
    ),
    plant(
        49,
        "the actor's loss leaves gradients in the critics",
        (
            CRITICS,
            "(gradient,) = torch.autograd.grad(values.sum(), actions)",
            "values.sum().backward()\n    gradient = actions.grad\n    assert gradient is not None",
        ),
    ),
    plant(
        49,
        "the critics step with the actor",
        (
            SAC,
            "optimizer.step(inf)\n        figures = {",
            "optimizer.step(inf)\n        tensors.critics.optimizer.step(inf)\n        figures = {",
        ),
    ),
    plant(
        54,
        "returns are reported of clipped rewards",
        ("envs/vector/in_process.py", "returns[index] += reward", "returns[index] += max(-1.0, min(1.0, reward))"),
    ),
    plant(
        54,
        "rewards are scaled on their way into the buffer",
        (
            OFF_POLICY,
            "self.store(actions, result.rewards, result.endings)",
            "self.store(actions, [0.1 * reward for reward in result.rewards], result.endings)",
        ),
    ),
    plant(
        55,
        "resuming forgets the temperature",
        (SAC, 'self.log_alpha.copy_(saved["log_alpha"])', 'assert "log_alpha" in saved'),
    ),
    plant(
        55,
        "resuming forgets the critics' targets",
        (CRITICS, 'self.target.restore(saved["critic_target"])', 'assert "critic_target" in saved'),
    ),
    plant(
        57,
        "discrete SAC takes one drawn action where the expectation belongs",
        (
            SAC_LOSS,
            "return (log_probs.exp() * (values - temperature * log_probs)).sum(dim=-1)",
            (
                "drawn = log_probs.exp().flatten(0, -2).multinomial(1).view(*log_probs.shape[:-1], 1)\n"
                "    return (values - temperature * log_probs).gather(-1, drawn).squeeze(-1)"
            ),
        ),
    ),
)
