"""What a release needs: workflows, lock files, equal builds, and the two scripts that judge it."""
