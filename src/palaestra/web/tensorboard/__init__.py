"""TensorBoard behind the daemon: its process and the proxy."""
