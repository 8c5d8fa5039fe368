import numpy as np
import pytest

from palaestra.core.errors import RunFailed
from palaestra.evaluation.stage import show


def test_a_picture_is_handed_on_as_bytes():
    shown = []
    show(np.ones((2, 3, 3)), shown.append, "env")
    assert (shown[0].dtype, shown[0].shape) == (np.uint8, (2, 3, 3))


@pytest.mark.parametrize(
    "drawn", [None, "text", np.zeros((4, 4)), np.zeros((4, 4, 4))], ids=["none", "text", "grey", "rgba"]
)
def test_what_is_no_picture_is_refused_with_who_gave_it(drawn):
    with pytest.raises(RunFailed, match="<Crowd> gave .* instead of a picture"):
        show(drawn, print, "<Crowd>")
