# needs: python3-pil
"""Drawing, filtering, and a file written and read again."""
import hashlib
import io

from PIL import Image, ImageDraw, ImageFilter

image = Image.new("RGB", (200, 100), "white")
ImageDraw.Draw(image).ellipse((20, 10, 150, 90), fill="red", outline="blue")
image = image.filter(ImageFilter.GaussianBlur(2)).point(lambda value: 255 - value)
file = io.BytesIO()
image.save(file, "PNG")
print(hashlib.sha256(Image.open(io.BytesIO(file.getvalue())).tobytes()).hexdigest())
