"""Middleware that labels requests by their routes.

    app = ferrule_profiler.web.wsgi(app)        # or asgi(app)

A label is `GET /users/<id>`, as the framework writes the route: Flask, Quart, Django, Starlette and FastAPI are known. Of
others the path is taken, with `*` for parts in which there are digits. `route` is called with the environ or the scope of
a request, and returns another label, or None.

Other files of this package are not in profiles; this one is a part of the program.
"""

import sys

from ._label import continued, label

NO_ROUTE = "(no route)"
# A part of a path that is longer is no name.
MOST_CHARACTERS = 30


def of_path(path):
    """The path without what is another one in each request."""
    return "/".join("*" if len(part) > MOST_CHARACTERS or any(map(str.isdigit, part)) else part for part in path.split("/"))


def of_werkzeug(app, environ):
    return app.url_map.bind_to_environ(environ).match(return_rule=True)[0].rule


def of_quart(app, scope):
    host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "localhost")
    adapter = app.url_map.bind(host, url_scheme=scope.get("scheme", "http"))
    return adapter.match(scope["path"], method=scope.get("method", "GET"), return_rule=True)[0].rule


def of_django(path):
    from django.urls import resolve
    return "/" + resolve(path).route


def of_starlette(routes, scope):
    """The path of the first route that takes all of the request, and of those in it."""
    for route in routes:
        match, child = route.matches(scope)
        if match.name == "FULL":
            within = getattr(route, "routes", None)
            return route.path + (of_starlette(within, {**scope, **child}) if within else "")
    raise LookupError


def is_of(app, package):
    return package in sys.modules and type(app).__module__.partition(".")[0] == package


def named(app, find, path, *request):
    """What `find` makes of a request, or the path where that is not known."""
    if find is None:
        return of_path(path)
    try:
        return find(app, *request)
    except Exception:       # no route takes it, or the framework is another one than we know
        return NO_ROUTE


def finder(app, is_asgi):
    """What finds the route of a request for an application; None: nothing that is known here."""
    if hasattr(app, "url_map"):
        return of_quart if is_asgi else of_werkzeug
    if is_of(app, "django"):
        return lambda app, request: of_django(request["path"] if is_asgi else request.get("PATH_INFO", "/"))
    if is_asgi and hasattr(app, "routes"):
        return lambda app, scope: of_starlette(app.routes, scope)
    return None


class Labelled:
    """An application whose requests are labelled."""

    def __init__(self, app, route=None):
        self.app, self.route = app, route

    def label_of(self, request):
        name = self.route and self.route(request)
        return self.method_and_path(request) if name is None else name


class wsgi(Labelled):
    """A WSGI application whose requests are labelled."""

    def method_and_path(self, environ):
        app = getattr(self.app, "__self__", self.app)       # app.wsgi_app
        return f"{environ.get('REQUEST_METHOD', '')} {named(app, finder(app, False), environ.get('PATH_INFO', ''), environ)}"

    def __call__(self, environ, start_response):
        name = self.label_of(environ)
        with label(name):
            body = self.app(environ, start_response)
        wrapper = environ.get("wsgi.file_wrapper")
        if isinstance(body, (list, tuple)) or isinstance(wrapper, type) and isinstance(body, wrapper):
            return body     # it is made, or the server sends it
        return Body(body, name)


class Body:
    """A body that is made while it is sent: the label has that too."""

    def __init__(self, body, name):
        self.body, self.label, self.pieces = body, continued(name), None

    def __iter__(self):
        return self

    def __next__(self):
        with self.label:
            if self.pieces is None:
                self.pieces = iter(self.body)
            piece = next(self.pieces, self)
        if piece is self:
            raise StopIteration
        return piece

    def close(self):
        close = getattr(self.body, "close", None)
        if close is not None:
            with self.label:
                close()


class asgi(Labelled):
    """An ASGI application whose requests are labelled."""

    def method_and_path(self, scope):
        # Starlette says what it is to its middleware.
        app = scope.get("app", getattr(self.app, "__self__", self.app))
        return f"{scope.get('method', 'WEBSOCKET')} {named(app, finder(app, True), scope['path'], scope)}"

    async def __call__(self, scope, receive, send):
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        with label(self.label_of(scope)):
            await self.app(scope, receive, send)
