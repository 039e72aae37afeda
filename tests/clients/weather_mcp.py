"""An MCP server of one tool, which a coding agent starts and the demo model calls."""

from mcp.server import MCPServer

from tests.clients.prompts import WEATHER

server = MCPServer("home")


@server.tool()
def get_weather(city: str) -> str:
    """Get the weather of a city"""
    return WEATHER


if __name__ == "__main__":
    server.run()
