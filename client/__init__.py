"""What plays: the pygame client, and the headless walker. Runs on a machine without torch."""
