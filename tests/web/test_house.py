from palaestra.web.house import House


def test_two_houses_share_no_rooms_and_no_book():
    first, second = House(None, None, None, None), House(None, None, None, None)
    first.rooms["x"] = 1
    assert second.rooms == {}
    assert first.book is not second.book
    assert first.book.boot != second.book.boot
