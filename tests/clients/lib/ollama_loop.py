"""An agent's loop with Ollama's package: the model writes a file, then says so."""
import sys

import ollama


def write_file(path: str, text: str) -> str:
    """
    Write a file

    Args:
      path: Where
      text: What
    """
    with open(path, "w", encoding="utf-8") as file:
        return f"{file.write(text)} characters written"


messages = [{"role": "user", "content": sys.argv[1]}]
client = ollama.Client()  # OLLAMA_HOST and OLLAMA_API_KEY
while True:
    message = client.chat(model="demo-model", messages=messages, tools=[write_file], think=True).message
    messages.append(message)
    if not message.tool_calls:
        break
    for call in message.tool_calls:
        messages.append({"role": "tool", "tool_name": call.function.name, "content": write_file(**call.function.arguments)})
print(message.thinking, message.content)
