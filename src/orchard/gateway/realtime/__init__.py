"""Sessions of OpenAI's Realtime API: an orchestrator of ordinary requests to transcribe, to generate and to speak."""
