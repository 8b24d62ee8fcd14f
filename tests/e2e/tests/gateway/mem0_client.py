"""What an application does with mem0's client, against the address and with the key it is given."""

import json
import sys
import types

# What only mem0's own engine and its telemetry import, and its client does not use.
for module, member in [("qdrant_client", "QdrantClient"), ("posthog", "Posthog")]:
    sys.modules[module] = types.ModuleType(module)
    setattr(sys.modules[module], member, object)

from mem0 import MemoryClient  # noqa: E402
from mem0.exceptions import MemoryError as Mem0Error  # noqa: E402

client = MemoryClient(host=sys.argv[1], api_key=sys.argv[2])
found = {}


def refused(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except Mem0Error as error:
        return [type(error).__name__, error.debug_info["status_code"], str(error)]
    return None


mine = {"user_id": "ann"}
added = client.add("Ann lives in Rome.", user_id="ann", infer=False, metadata={"topic": "home", "n": 1})
found["added"] = added
client.add(
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Ann is allergic to hazelnuts."}],
    user_id="ann",
    run_id="kitchen",
    agent_id="cook",
    infer=False,
    timestamp=1735689600,
    expiration_date="2999-12-31",
)
home = added["results"][0]["id"]

found["all"] = client.get_all(filters=mine)
found["pages"] = [client.get_all(filters=mine, page=page, page_size=1) for page in (1, 2)]
found["cook"] = client.get_all(filters={"AND": [mine, {"agent_id": "cook"}, {"run_id": "kitchen"}]})
found["search"] = client.search("Where does Ann live?", filters=mine, top_k=1)
found["searched_topic"] = client.search(
    "What is Ann allergic to?", filters={"AND": [mine, {"metadata": {"topic": "home"}}]}, rerank=False
)
found["get"] = client.get(home)

found["updated"] = client.update(home, text="Ann lives in Oslo.")
found["after_update"] = client.get(home)
found["history"] = client.history(home)
found["deleted"] = client.delete(home)
found["after_delete"] = refused(client.get, home)
found["left"] = client.get_all(filters=mine)
found["deleted_all"] = client.delete_all(user_id="ann")
found["nothing_left"] = client.get_all(filters=mine)

found["refused"] = [
    refused(client.add, "Bob lives in Rome.", user_id="bob", infer=False),
    refused(client.search, "Where does Bob live?", filters={"user_id": "bob"}),
    refused(client.get_all, filters={"user_id": "*"}),
    refused(client.delete_all, user_id="bob"),
    refused(client.delete_all),
    refused(client.add, "Ann lives in Rome.", user_id="ann", app_id="shop"),
    refused(client.add, "Ann lives in Rome.", user_id="ann", custom_instructions="x"),
    refused(client.update, home, metadata={"topic": "x"}),
    refused(client.get, "no-id"),
    refused(client.users),
]
found["infer"] = refused(client.add, "Ann lives in Rome.", user_id="ann")

try:
    MemoryClient(host=sys.argv[1], api_key="mat_wrong")
except ValueError as error:
    found["wrong_key"] = str(error)

print(json.dumps(found))
