# needs: python3-psycopg python3-psycopg2 postgresql
"""A PostgreSQL server: parameters, many rows, COPY, a cursor on the server, an error, a notification, asyncio; and no server."""
import asyncio
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg
import psycopg2
from psycopg import sql


def as_postgres(*words):
    subprocess.run(["runuser", "-u", "postgres", "--", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def synchronous(where):
    with psycopg.connect(where, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("create table t (n int primary key, name text, made date, data jsonb)")
        cursor.executemany("insert into t values (%s, %s, %s, %s)",
                           [(n, f"näme {n}", f"2026-01-{n + 1:02}", psycopg.types.json.Jsonb({"n": [n]})) for n in range(20)])
        print(cursor.execute("select * from t where n = any(%s) order by n", ([3, 5],)).fetchall())
        with cursor.copy(sql.SQL("copy {} from stdin").format(sql.Identifier("t"))) as copy:
            for n in range(100, 5100):
                copy.write_row((n, "copied", None, None))
        try:
            cursor.execute("insert into t values (100)")
        except psycopg.errors.UniqueViolation as error:
            print(type(error).__name__, error.sqlstate)
        connection.execute("listen heard")
        connection.execute("select pg_notify('heard', 'what')")
        print([notify.payload for notify in connection.notifies(timeout=5, stop_after=1)])
    with psycopg.connect(where) as connection, connection.cursor(name="server") as cursor:
        cursor.execute("select n from t order by n")
        print(sum(row[0] for row in cursor))


async def concurrent(where):
    async def one(number):
        async with await psycopg.AsyncConnection.connect(where) as connection:
            cursor = await connection.execute("select pg_sleep(0.01), %s * 2", (number,))
            return (await cursor.fetchone())[1]

    print(await asyncio.gather(*(one(number) for number in range(8))))


def older(where):
    with psycopg2.connect(where) as connection, connection.cursor() as cursor:
        cursor.execute("select count(*), min(name), max(made) from t where data is not null")
        print(cursor.fetchone())


def main():
    programs, = Path("/usr/lib/postgresql").glob("*/bin")
    place = tempfile.mkdtemp()
    shutil.chown(place, "postgres")
    Path(place).chmod(0o755)
    as_postgres(f"{programs}/initdb", "-D", f"{place}/data", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
    options = f"-k {place} -c listen_addresses='' -c fsync=off"
    as_postgres(f"{programs}/pg_ctl", "-D", f"{place}/data", "-o", options, "-l", f"{place}/log", "-w", "start")
    try:
        where = f"host={place} user=postgres dbname=postgres"
        synchronous(where)
        asyncio.run(concurrent(where))
        older(where)
    finally:
        as_postgres(f"{programs}/pg_ctl", "-D", f"{place}/data", "-m", "immediate", "-w", "stop")
        shutil.rmtree(place)
    for module in (psycopg, psycopg2):
        try:
            module.connect("host=127.0.0.1 port=1 connect_timeout=2")
        except module.OperationalError:
            print(module.__name__, "no server")


main()
