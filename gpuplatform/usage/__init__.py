"""The usage ledger: intervals, hourly records, the API and the admin of usage."""
