"""Rate three results through promptfoo's own server, as its viewer does."""

import json
import sys
import urllib.request

SERVER = "http://localhost:15999"
REASON = "Manual result (overrides all other grading results)"


def rate(eval_id, result, passed):
    grading = dict(result["gradingResult"])
    rating = {"pass": passed, "score": int(passed), "reason": REASON}
    human = {**rating, "assertion": {"type": "human"}}
    grading.update(rating, componentResults=[*grading["componentResults"], human])
    request = urllib.request.Request(
        f"{SERVER}/api/eval/{eval_id}/results/{result['id']}/rating",
        data=json.dumps(grading).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    urllib.request.urlopen(request).close()


with open(sys.argv[1]) as stream:
    content = json.load(stream)
for result, passed in zip(content["results"]["results"][:3], (True, False, True), strict=True):
    rate(content["evalId"], result, passed)
