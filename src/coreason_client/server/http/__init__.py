"""What each protocol over HTTP needs: keys, hosts, rate limits, bounded bodies, problems."""
