"""Questions about the knowledge and the beliefs of people in played episodes."""
