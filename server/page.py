"""The page at /: what this is and how to walk in. A constant; the browser client replaces it."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>WorldPager</title>
</head>
<body>
<main>
<h1>WorldPager</h1>
<p>This server draws a world with a video model while you walk through it, and keeps what it drew: walk back an hour
later and the room is still that room.</p>
<h2>Walk in</h2>
<p>On this machine, or on any other that reaches it, in a checkout of WorldPager:</p>
<pre>make client URL=ws://HOST:PORT/ws</pre>
<p>Take HOST and PORT from the address of this page. A server that listens beyond its own machine printed a token at its
start; the client takes it with <code>--token</code>.</p>
<h2>Look inside</h2>
<ul>
<li><a href="/healthz">/healthz</a>: whether frames can be made now</li>
<li><a href="/worlds">/worlds</a>: the worlds of this server, their branches and snapshots</li>
<li><a href="/metrics">/metrics</a>: what the memory and the wire did, for Prometheus</li>
<li><code>/ws</code>: the WebSocket; docs/protocol.md describes it for writers of other clients</li>
</ul>
</main>
</body>
</html>
"""
