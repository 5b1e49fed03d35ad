"""The loops of `run_activator` and `run_result_store`: activator, relay, result store, sweep."""
