"""What people and programs reach over HTTP. No rule is made here: requests are read, parts asked, answers written."""
