"""Read DMARC aggregate reports from emails and files, and store them for the tenants whose domains they are about."""
