def tree_map(function, tree):
    return {key: tree_map(function, one) for key, one in tree.items()} if isinstance(tree, dict) else function(tree)
