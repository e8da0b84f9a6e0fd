"""What a pool's live objects say."""
