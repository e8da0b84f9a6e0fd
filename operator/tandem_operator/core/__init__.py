"""Pure decisions: observation -> learned models -> forecast -> sizing -> guard -> decision, explained."""
