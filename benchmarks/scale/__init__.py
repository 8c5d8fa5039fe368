"""A model of training on many ranks and of evaluation by many workers; see ../scale_model.py."""
