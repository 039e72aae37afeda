"""The sizes at which the model's processor gets images and frames."""

import math

from PIL import Image

from orchard.core.media import MediaOptions

LOW_DETAIL = (512, 512)


def resize_image(image: Image.Image, options: MediaOptions, *, has_bounds: bool = True) -> Image.Image:
    """Return an image, resized for the model's processor: see `fit_size`."""
    size = fit_size((image.height, image.width), options, has_bounds=has_bounds)
    if size == (image.height, image.width):
        return image
    return image.resize(size[::-1], Image.Resampling.BICUBIC)


def fit_size(size: tuple[int, int], options: MediaOptions, *, has_bounds: bool = True) -> tuple[int, int]:
    """Return the (height, width) to which an image is resized before the model's processor.

    Proportions are kept. The image is scaled to fit into the box `resize_shape`, as in mlx-vlm; "low" detail only
    shrinks it. `has_bounds`: apply `min_pixels` and `max_pixels` to the result; False: the processor does.
    """
    height, width = size
    ratio = 1.0
    if options.resize_shape is not None:
        ratio = min(options.resize_shape[0] / height, options.resize_shape[1] / width)
    if options.detail == "low":
        ratio = min(LOW_DETAIL[0] / height, LOW_DETAIL[1] / width, ratio)
    pixels = height * width * ratio**2
    if has_bounds and options.max_pixels is not None and pixels > options.max_pixels:
        ratio *= math.sqrt(options.max_pixels / pixels)
    elif has_bounds and options.min_pixels is not None and pixels < options.min_pixels:
        # Round up; otherwise, there would be too few pixels.
        ratio *= math.sqrt(options.min_pixels / pixels)
        return math.ceil(height * ratio), math.ceil(width * ratio)
    return max(1, int(height * ratio)), max(1, int(width * ratio))
