# needs: python3-django
"""A project, a migration and a request."""
import pathlib
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as directory:
    def admin(*words):
        return subprocess.run([sys.executable, *words], cwd=directory, check=True, capture_output=True, text=True).stdout

    admin("-m", "django", "startproject", "site_of_a_test", ".")
    admin("manage.py", "startapp", "app")
    pathlib.Path(directory, "app/models.py").write_text(
        "from django.db import models\nclass Note(models.Model):\n    text = models.CharField(max_length=9)\n")
    pathlib.Path(directory, "site_of_a_test/urls.py").write_text('''
from django.http import JsonResponse
from django.urls import path
from app.models import Note

def notes(request):
    Note.objects.create(text=request.GET["text"])
    return JsonResponse({"notes": [note.text for note in Note.objects.order_by("id")]})

urlpatterns = [path("notes", notes)]
''')
    settings = pathlib.Path(directory, "site_of_a_test/settings.py")
    settings.write_text(settings.read_text() + "\nINSTALLED_APPS += ['app']\nALLOWED_HOSTS = ['*']\n")
    admin("manage.py", "makemigrations", "app")
    print(admin("manage.py", "migrate").count(" OK"))
    print(admin("manage.py", "shell", "-c", "from django.test import Client; c = Client()\n"
                "print(c.get('/notes?text=a').json(), c.get('/notes?text=b').json(), c.get('/none').status_code)").splitlines()[-1])
