"""The WebSockets: events, frames of a run, matches."""
