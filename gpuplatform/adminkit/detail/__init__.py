"""The parts of the page of an object: panels, facts, timelines and live data of the cluster."""
