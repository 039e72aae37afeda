"""Silero's voice activity detection, version 6.2.3 (https://github.com/snakers4/silero-vad), in numpy.

`tools/silero_vad` made the weights from Silero's own package.
"""
