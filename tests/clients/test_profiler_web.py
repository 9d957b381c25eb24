"""Middleware that labels requests by their routes."""

import asyncio
import contextlib
import io
import re
import types

from labels_support import LabelsCase, leaf
from profiler_support import load

setUpModule = load


class Rule:
    def __init__(self, path):
        self.rule = path


class WerkzeugApp:
    """What Flask's applications have."""

    def __init__(self):
        self.url_map = self

    def bind_to_environ(self, environ):
        return types.SimpleNamespace(match=lambda return_rule: (self.rules[environ["PATH_INFO"]], {}))

    rules = {"/users/7": Rule("/users/<int:id>"), "/": Rule("/")}

    def wsgi_app(self, environ, start_response):
        leaf()
        start_response("200 OK", [])
        return [b"body"]

    __call__ = wsgi_app


class Web(LabelsCase):
    def request(self, app, path, method="GET"):
        import wsgiref.util
        environ = {"PATH_INFO": path, "REQUEST_METHOD": method}
        wsgiref.util.setup_testing_defaults(environ)
        return app(environ, lambda *_: None)

    def labels_of(self, app, *requests):
        return self.within(self.profiled(lambda: [self.request(app, *request) for request in requests]))

    def test_routes_of_flask(self):
        found = {("GET /users/<int:id>",): 2, ("POST /",): 1, ("GET (no route)",): 1}
        for app in (WerkzeugApp(), WerkzeugApp().wsgi_app):
            self.assertEqual(self.labels_of(self.profiler.web.wsgi(app), ("/users/7",), ("/users/7",), ("/", "POST"), ("/none/1",)), found)

    def test_routes_of_others(self):
        def app(environ, start_response):
            leaf()
            return []

        wsgi = self.profiler.web.wsgi
        self.assertEqual(self.labels_of(wsgi(app), ("/users/7/posts",), ("/users/12/posts",), ("/about",), ("/" + "x" * 50,)),
                         {("GET /users/*/posts",): 2, ("GET /about",): 1, ("GET /*",): 1})
        route = {"/a": "A", "/b": None}.get
        self.assertEqual(self.labels_of(wsgi(app, lambda environ: route(environ["PATH_INFO"])), ("/a",), ("/b",)), {("A",): 1, ("GET /b",): 1})
        with self.assertRaises(ZeroDivisionError):
            self.request(wsgi(app, lambda environ: 1 / 0), "/")

    def test_a_body_that_is_made_later(self):
        closed = []

        class Body:
            def __iter__(self):
                for n in range(3):
                    leaf()
                    yield b"x"

            def close(self):
                closed.append(leaf())

        def app(environ, start_response):
            return Body()

        def run():
            body = self.request(self.profiler.web.wsgi(app), "/")
            for _ in body:
                leaf()
            body.close()
            self.request(self.profiler.web.wsgi(app), "/").close()      # nothing was read

        result = self.profiled(run)
        self.assertEqual(self.within(result), {("GET /",): 5, (): 3})
        self.assertEqual(self.counted(result), {"GET /": (2, 2, 0, 0)})
        self.assertEqual(len(closed), 2)

    def test_bodies_that_stay_what_they_are(self):
        import wsgiref.util
        for body in ([b"a"], (b"a",), wsgiref.util.FileWrapper(io.BytesIO(b"a"))):
            environ = {"PATH_INFO": "/", "wsgi.file_wrapper": wsgiref.util.FileWrapper}
            self.assertIs(self.profiler.web.wsgi(lambda environ, start_response: body)(environ, None), body)

    def test_an_application_that_fails(self):
        def app(environ, start_response):
            raise KeyError

        def run():
            with contextlib.suppress(KeyError):
                self.request(self.profiler.web.wsgi(app), "/")
            leaf()

        result = self.profiled(run)
        self.assertEqual(self.counted(result), {"GET /": (1, 1, 0, 1)})
        self.assertEqual(self.within(result), {(): 1})

    def asgi_labels(self, app, *scopes, **options):
        async def serve():
            wrapped = self.profiler.web.asgi(app, **options)
            await asyncio.gather(*(asyncio.create_task(wrapped({"type": "http", "method": "GET", "headers": [], **scope}, None, None))
                                   for scope in scopes))

        result = self.profiled(lambda: asyncio.run(serve()))
        return self.within(result)

    def test_asgi(self):
        async def app(scope, receive, send):
            leaf()
            await asyncio.sleep(0)
            leaf()

        found = self.asgi_labels(app, {"path": "/a/1"}, {"path": "/b"}, {"path": "/a/2"}, {"type": "websocket", "path": "/w"}, {"type": "lifespan"})
        self.assertEqual(found, {("GET /a/*",): 4, ("GET /b",): 2, ("GET /w",): 2, (): 2})
        self.assertEqual(self.asgi_labels(app, {"path": "/"}, route=lambda scope: "R"), {("R",): 2})

    def test_routes_of_starlette(self):
        class Match:
            def __init__(self, name):
                self.name = name

        class Route:
            def __init__(self, path, routes=None):
                self.path, self.routes = path, routes

            def matches(self, scope):
                path = scope.get("left", scope["path"])
                if self.routes is None:
                    return Match("FULL" if re.fullmatch(re.sub(r"{\w+}", r"\\w+", self.path), path) else "NONE"), {}
                return Match("FULL" if path.startswith(self.path) else "NONE"), {"left": path.removeprefix(self.path)}

        class App:
            routes = [Route("/users/{id}"), Route("/api", [Route("/items/{id}")])]

            async def __call__(self, scope, receive, send):
                leaf()

        scopes = [{"path": path} for path in ("/users/x", "/users/7", "/api/items/3", "/api/none", "/none")]
        found = {("GET /users/{id}",): 2, ("GET /api/items/{id}",): 1, ("GET (no route)",): 2}
        self.assertEqual(self.asgi_labels(App(), *scopes), found)

        async def inner(scope, receive, send):
            leaf()

        # As middleware of Starlette's.
        self.assertEqual(self.asgi_labels(inner, *({**scope, "app": App()} for scope in scopes)), found)
