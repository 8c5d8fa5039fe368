FrozenDict = dict
