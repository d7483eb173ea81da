"""HTTP parts that all protocols share: keys, hosts, rate limits, body limits, problems."""
