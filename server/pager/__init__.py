"""The pager: where blocks live and when they move. `decide` is pure, `move` is not; pager.py joins them."""
