"""Values to be copied letter by letter: deep paths, addresses with a query, codes in brackets, long names in any case."""

# ruff: noqa: E501 - phrases read best unbroken

import re
from collections.abc import Callable
from random import Random

from demo_model.skills import around, situated, things, values
from demo_model.skills.assembled import phrased, restored
from demo_model.skills.define import Offer
from demo_model.skills.slots import LIST, TEXT
from demo_model.skills.values import Said
from demo_model.text import ADJECTIVES, NAMES, NOUNS, Split, choose, coin, expand, lines, pick, wording

_DEEP = "[[tests|src|app|lib|docs|scripts|tools|packages|configs|assets|models|views|utils|helpers|components|services|fixtures|migrations|templates|pages|hooks|routes|handlers|plugins|examples|{n}s|{c}|{n}_{m}s]/[[api|core|{n}s|{m}s|{n}|common|integration|unit|v{i}|{c}|{n}_{m}|__tests__]/[{m}s/|{c}/||]|][test_{n}|test_{n}_{m}|{n}_test|{n}_{m}s|{N}{M}|{n}.test|use{N}|{n}s|index|{n}-{m}|{n}_{m}_{k}|__init__|{n}_{a}_{m}|{c}_{n}s]].[py|ts|tsx|js|go|rs|md|yaml|json|sql|java|html|css|toml|rb|vue|c|h]"
_ADDRESS = "[https://|https://|http://|]{h}.[com|org|io|net|dev|co.uk|de]/[{n}s|{c}|{n}/{m}|api/v{i}/{n}s|{n}s/{k}|blog/{n}-{m}-{k}|search|{n}_{m}.html]?[page={i}|q={n}|id={k}|{n}={c}|lang=en|sort={m}|v={c}{i}|{n}_id={k}|ref={c}|limit={k}][&[page={i}|{m}={k}|{c}={n}|sort=desc|utm_source={c}|q={n}+{m}|size={i}0|x={k}]|&{m}={c}&{n}={i}||#{n}]"
_CODES = "[{L}{L}-{k}-{g}{g}|{k}-{L}{g}{L}|{L}{L}{L}{k}|{c}_{k}|{g}{g}{g}-{k}-{g}|{L}{g}{L}{g}{L}{g}|{c}-{c2}-{g}|{L}/{k}/{g}|{k}.{k2}.{g}|{c}{k}{L}|{L}{L}_{k}{L}|x{k}{c}{g}|{h}]"
_NAMES = "[{A} {N} of the {B} {M}|{C} {N} {D} {M}|{n} {m} {a}|THE {U} {V}|{C} van der {D}|{A} {n} no. {i}|{N}, {M} & {C}|{c} {n} {a}|{C} de la {D}|{n} OF {m}|{A}-{N} {M}|{C} {L}. {D}|the {a} {n} {m}|{C}'s {A} {N}|El {C} {N}|{n}s for {m}s|{N}{M} {i}.{i}|iO{n}|{C} {N} (new)|Mc{C} {N} {M}|{A} {N} in {a} {M}]"
_SPECIAL = {
    "commit": "{h}", "version": "[v|]{g}.{k}.{g}[-beta.{g}|-rc{g}|+{c}|]", "endpoint": "[10.{g}{g}.{g}.1{g}{g}:{g}080|{c}.local:{g}000|{n}-{g}.internal:{g}432|localhost:{g}{g}00]", "envvar": "{U}_{V}[|_KEY|_URL|_{g}]", "cron": "[*/{i} * * * *|0 {i} * * [1|3|5]|{k2} {i} 1 * *|30 {i} * * 1-5]", "selector": "[#{n}-{m}|.{n}__{m}|div.{n} > .{m}|[data-{n}={c}]|{n}.{m}:hover]", "package": "[@{c}/{n}-{m}|{n}-{m}=={g}.{g}.{g}|{c}_{n}|{n}[{m}]|lib{n}{g}-dev]", "handle2": "[@{c}_{n}.{g}|{c}.{n}__{g}|@_{n}{k}_|{n}-{c}-{g}]",
}  # fmt: skip


def _drawn(rng: Random, pattern: str) -> str:
    """Fill a pattern with words of any kind."""
    noun, other, quality = choose(rng, NOUNS), choose(rng, NOUNS), choose(rng, ADJECTIVES)
    text = expand(
        rng, pattern, n=noun, m=other, a=quality, c=coin(rng, 2), c2=coin(rng, 1), i=rng.randint(1, 9), k=rng.randint(10, 4000), k2=rng.randint(10, 99), N=noun.capitalize(), M=other.capitalize(), A=quality.capitalize(),
        B=choose(rng, ADJECTIVES).capitalize(), C=coin(rng, 2).capitalize(), D=coin(rng, 1).capitalize(), U=noun.upper(), V=other.upper(), h=f"{rng.getrandbits(40):010x}"[: rng.randint(7, 10)], L="{L}", g="{g}",
    )  # fmt: skip
    text = re.sub(r"\{L\}", lambda _: choose(rng, "ABCDEFGHKLMNPQRSTUVWXYZ"), text)
    return re.sub(r"\{g\}", lambda _: choose(rng, "0123456789"), text)


def _cased(rng: Random, text: str) -> str:
    style = rng.random()
    return text.lower() if style < 0.25 else text.upper() if style < 0.33 else text


def _named(rng: Random, split: Split) -> Said:
    name = _cased(rng, _drawn(rng, _NAMES)) if rng.random() < 0.75 else _cased(rng, f"{pick(rng, NAMES, split)} {things.surname(rng)}")  # fmt: skip
    return values.quoted(rng, name) if rng.random() < 0.3 else values.same(name)


def _code(rng: Random, split: Split) -> Said:
    """Draw a code, at times in brackets, which are no part of it."""
    code = _drawn(rng, _CODES)
    return choose(rng, ("{}", "[{}]", "({})", "<{}>", "{}", "`{}`", "“{}”", "#{}", '"{}"', "[{}]", "({})")).format(code), code  # fmt: skip


def _file(rng: Random, split: Split) -> Said:
    path = _drawn(rng, f"[{_DEEP}]")
    path = choose(rng, ("", "", "", "./", "../", "/srv/", "~/")) + path
    return choose(rng, ("{}", "{}", "{}", "`{}`", '"{}"', "({})")).format(path), path


def _address(rng: Random, split: Split) -> Said:
    host = _drawn(rng, "[{c}|{n}-{m}|www.{c}|{n}s|shop.{c}|{c}-{n}|docs.{n}]")
    return values.same(_drawn(rng, _ADDRESS.replace("{h}", host)))


def _special(key: str) -> Callable[[Random, Split], Said]:
    def draw(rng: Random, split: Split) -> Said:
        text = _drawn(rng, _SPECIAL[key].replace("[data-", "{b}data-").replace("={c}]|{n}.{m}:", "={c}{e}|{n}.{m}:").replace("{n}[{m}]", "{n}{b}{m}{e}")).replace("{b}", "[").replace("{e}", "]")  # fmt: skip
        return choose(rng, ("{}", "{}", "{}", "`{}`", '"{}"') if key != "cron" else ("{}",)).format(text), text

    return draw


def _files(rng: Random, split: Split) -> Said:
    found = list(dict.fromkeys(_drawn(rng, f"[{_DEEP}]") for _ in range(rng.choice((2, 2, 3)))))
    return values.join(rng, found) if len(found) > 1 else found[0], found


situated.KINDS.update({
    "deep": (TEXT, _file), "deeps": (LIST, _files), "address3": (TEXT, _address), "code3": (TEXT, _code), "longname": (TEXT, _named),
    "town": (TEXT, lambda rng, split: values.same(values.town(rng))), "town2": (TEXT, lambda rng, split: values.same(values.town(rng))),
    **{key: (TEXT, _special(key)) for key in _SPECIAL},
})  # fmt: skip

COPIED = lines("""
run_tests|pytest|test_runner|run_test_file|unit_tests ; Run the tests of a file. ; path|file|test_file|target:deep ; [Run|Start|Execute] the tests in {path}|[Run|Test] {path}|[Do|Does] {path} [pass|still pass]|[Run|Start] {path} [with pytest|again]|[I changed|I fixed] {path}, [test it|run it]
open_file|read_file|show_file|cat|view_source ; Show a file. ; path|file|filename|file_path:deep ; [Open|Show me|Read|Print|Let me see] {path}|[What's|What is] in {path}|[The contents of|Contents of] {path}|I [want|need] to [see|read] {path}|Where is {path}? Open it
lint|check_style|run_linter|format_file ; Check the style of a file. ; path|file|target:deep fix|autofix|apply_fixes?:bool ; [Lint|Check the style of] {path}|<fix=true>[Lint|Check] {path} and [repair|mend] what you can|<fix=false>[Lint|Check] {path}, but [change nothing|only look]|Is {path} [clean|well formatted]
stage_files|git_add|add_files|track_files ; Stage files for a commit. ; paths|files|file_list:deeps ; [Stage|Add|Track] {paths}|[Put|Get] {paths} into the next commit|{paths} [should|must] be staged
rename_file|move_file|mv|relocate ; Move a file. ; source|from|old_path|src:deep target|to|new_path|dest:deep ; [Move|Rename] {source} to {target}|{source} [should be|becomes|is now] {target}|[mv|Move] {source} {target}
fetch_url|open_page|http_get|load_page|download_page ; Load a page from the web. ; url|link|address|page:address3 ; [Open|Load|Fetch|Get|Read|Go to|Visit] {url}|[What's|What is] [at|on] {url}|[Show me|Download] {url}|Have a look at {url}|{url}[, please| - what does it say|]
bookmark|save_link|add_bookmark|keep_link ; Keep a link. ; url|link|address:address3 title|name|label?:longname ; [Bookmark|Keep|Save] {url}|[Keep|Save] {url} as {title}|{url} is worth keeping|Bookmark {url} under {title}
check_link|ping_url|is_reachable|link_status ; Check whether a link works. ; url|link|target:address3 ; [Is|Does] {url} [reachable|up|work|alive]|[Check|Test|Ping] {url}|[Can you|Can anyone] reach {url}|{url} - dead or alive
look_up_code|get_item|find_by_code|scan_code|resolve_code ; Find something by its code. ; code|id|reference|key:code3 ; [Look up|Find|Get|Show|Scan|Resolve] {code}|[What's|What is|Who has] {code}|[The item|The record|Item|Record] {code}|I found a label, {code}, what is it|[Check|Open] [the entry|entry] {code}
cancel_code|void_ticket|revoke|block_code|deactivate_code ; Make a code void. ; code|id|ticket|token:code3 ; [Cancel|Void|Revoke|Block|Deactivate] {code}|{code} [was stolen|is void|has expired, block it|must not work any more]|[Nobody|No one] may use {code}
link_codes|pair_codes|match_ids|connect_records ; Link two records. ; first|from|code_a|source:code3 second|to|code_b|target:code3 ; [Link|Connect|Pair|Match] {first} [with|to|and] {second}|{first} belongs to {second}|{first} and {second} [belong together|are one]
find_named|search_name|lookup_name|open_record|get_profile ; Find something by its name. ; name|title|label|who:longname ; [Find|Open|Look up|Show me|Get] {name}|[Who|What] is {name}|I'm looking for {name}|[Do you have|Have you got] {name}|{name}[, please| - have you got that|]
add_named|create_entry|register_name|new_entry ; Add something under its name. ; name|title|label:longname city|town|place?:town ; [Add|Create|Register|Enter] {name}|[Add|Register] {name} in {city}|[New entry|A new one|New one]: {name}|{name} from {city} [is new|is to be added]
town_info|place_info|about_town|city_data ; Tell something about a town. ; town|city|place|location:town ; [Tell me about|What do you know of|Where is|How big is] {town}|[What's|What is] {town} like|[The weather in|News of|Facts about|Hotels in] {town}|I'm moving to {town}, what's it like
ride_between|find_ride|train_search|connections ; Find a way from one town to another. ; from|origin|start|from_city:town to|destination|end|to_city:town2 ; [From|A train from|How do I get from] {from} to {to}|[I'm in|We are in] {from} and [must|want to] get to {to}|{from} to {to}[, please|]|To {to} from {from}
show_commit|get_commit|commit_details|view_commit ; Show a commit. ; sha|commit|hash|rev:commit ; [Show|Open|What's in|What changed in] {sha}|[The diff of|Details of] {sha}|Who wrote {sha}|[Look at|See] commit {sha}
install_version|pin_version|upgrade_to|set_version ; Install a version of a package. ; package|name|library:package version|tag|release?:version ; [Install|Add|Get] {package}|[I need|We need] {package}|[Install|Pin|Upgrade] {package} to version {version}|{package}, version {version}
connect_to|open_connection|check_port|dial_host ; Connect to a host. ; endpoint|host|address|target:endpoint ; [Connect to|Dial|Check|Reach|Probe] {endpoint}|Is {endpoint} [open|listening|up]|[Something|Nothing] answers at {endpoint}, check it
get_env|read_variable|env_value|show_variable ; Show the value of a variable. ; name|variable|key:envvar ; [What's|What is] {name} [set to|now]|[Show|Print|Get|Read] {name}|[The value of|Value of] {name}|Is {name} set
schedule_job|add_cron|cron_job|plan_job ; Run a script at set times. ; schedule|cron|when|expression:cron script|path|file|command:deep ; [Run|Start] {script} [at|on|with the schedule] "{schedule}"|"{schedule}" for {script}|[Schedule|Plan] {script}[:| as| with] "{schedule}"
query_element|find_element|locate_node|select_node ; Find an element of a page. ; selector|css|query|element:selector ; [Find|Select|Highlight|Locate] {selector}|Where is {selector}|[Is there|Does the page have] [an element|a node] {selector}
mention_user|follow_account|view_profile|open_profile ; Open somebody's profile. ; username|handle|account|user:handle2 ; [Open|Show|See|Visit] [the profile of |]{username}|[Who|What] is {username}|{username}, please|[What does|What did] {username} [post|write]
""")


def copied(rng: Random, split: Split) -> Offer:
    """Define a tool that takes something to be copied as it stands, and ask for it."""
    made, verbatim = situated.made(rng, split, wording(rng, COPIED, split))
    around.without_likes(made)
    ends = any(isinstance(value, str) and made.ask.endswith(value) for value in made.arguments.values())
    asks = re.match(r"(?i)(?:what|who|where|is|does|do|how|can|have you)\b", made.ask) is not None
    if ends and not asks:
        made.ask = phrased(rng, made.ask, after=False, before=not verbatim)
    elif "'" not in made.ask[:3]:
        made.ask = phrased(rng, made.ask, question=asks)
    made.ask = restored(made.ask, made.arguments)
    return made
