"""What the engines are like: timed work to laws, first guesses before any, corrections after."""
