"""The platform's installation in a cluster: resource definitions, accounts and rights."""
