"""What Runstate costs, and how much it stands."""
