# needs: python3-lxml
"""Parsing, XPath with a function in Python, XSLT, and an error."""
from lxml import etree

root = etree.fromstring("<a><b i='1'>x</b><b i='2'>y</b></a>")
space = etree.FunctionNamespace("urn:own")
space.prefix = "own"
space["twice"] = lambda context, nodes: nodes[0].text * 2
print(root.xpath("own:twice(b[@i='2'])"), [b.get("i") for b in root.iter("b")])
sheet = etree.XSLT(etree.fromstring(
    "<xsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'>"
    "<xsl:template match='/'><c><xsl:value-of select='count(//b)'/></c></xsl:template></xsl:stylesheet>"))
print(str(sheet(root)).strip())
try:
    etree.fromstring("<a>")
except etree.XMLSyntaxError as error:
    print(type(error).__name__, error.lineno)
