"""The loops of `run_activator` and `run_result_store`."""
