import torch

from palaestra.policies.memory.packing import pack


def stretches(starts):
    """(batch row, its steps) of every stretch, found step by step."""
    found = []
    for row in range(starts.shape[1]):
        for step in range(starts.shape[0]):
            if step == 0 or starts[step, row]:
                found.append((row, []))
            found[-1][1].append(step)
    return found


def test_every_step_stands_in_its_own_stretch_longest_first():
    torch.manual_seed(0)
    starts = torch.rand(7, 4) < 0.3
    plan = pack(starts)
    expected = sorted(stretches(starts), key=lambda stretch: -len(stretch[1]))
    batch_sizes = plan.batch_sizes.tolist()
    assert batch_sizes == [sum(len(steps) > at for _, steps in expected) for at in range(len(batch_sizes))]
    place = 0
    for at, count in enumerate(batch_sizes):
        for row, steps in expected[:count]:
            assert plan.order[place] == steps[at] * 4 + row
            place += 1
    assert place == 28
    assert plan.owners.tolist() == [row for row, _ in expected]


def test_places_undo_the_order():
    starts = torch.rand(5, 3, generator=torch.Generator().manual_seed(1)) < 0.5
    plan = pack(starts)
    assert torch.equal(plan.order[plan.places], torch.arange(15))


def test_only_what_begins_without_a_reset_goes_on_from_before_and_rows_end_with_their_last_stretch():
    starts = torch.tensor([[True, False], [False, True], [False, False]])
    plan = pack(starts)
    # row 0: one stretch of 3 that begins anew; row 1: one step that goes on, then two that do not
    by_length = {
        (int(owner), int(length)): index
        for index, (owner, length) in enumerate(zip(plan.owners, [3, 2, 1], strict=True))
    }
    assert [bool(plan.goes_on[by_length[key]]) for key in ((0, 3), (1, 2), (1, 1))] == [False, False, True]
    assert plan.last.tolist() == [by_length[0, 3], by_length[1, 2]]


def test_a_reset_at_every_step_makes_stretches_of_one():
    plan = pack(torch.ones(4, 3, dtype=torch.bool))
    assert plan.batch_sizes.tolist() == [12]
    assert not plan.goes_on.any()
