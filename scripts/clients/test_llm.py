"""The `llm` command."""

import os
import subprocess
import sys


def test_prompt(url, key, model, tmp_path):
    entry = f"- model_id: served\n  model_name: {model}\n  api_base: {url}/v1\n"
    (tmp_path / "extra-openai-models.yaml").write_text(entry)
    command = ["prompt", "-m", "served", "-o", "temperature", "0", "-o", "max_tokens", "16", "Name three colours."]
    env = {**os.environ, "LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": key}

    def answer(*more):
        run = [sys.executable, "-m", "llm", *command, *more]
        return subprocess.run(run, env=env, capture_output=True, text=True, check=True, timeout=60).stdout

    streamed = answer()
    assert streamed.strip() and answer("--no-stream") == streamed
