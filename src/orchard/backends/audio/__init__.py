"""Transcription models and speech models."""
