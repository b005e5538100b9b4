"""What tests share: a configuration, servers, an SSE reader."""
