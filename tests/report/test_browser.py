"""Reports of models in a browser: by keyboard, in light and dark, on a phone, for many nodes, without a network."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from minnow.cli._app import run
from minnow.report.drawing.look import size_of
from minnow.report.page.graph import GraphView, color_css, graph_html
from minnow.report.page.skeleton import Section, document
from minnow.schema.ir import DType, Graph, Node, TensorType
from tests.report.browser import Browser, chromium
from tests.report.test_drawing import SCOPES, Plan

pytestmark = pytest.mark.slow

DIGITS = Path(__file__).parents[2] / "examples/digits/digits.onnx"
GRAPH = "const host = document.getElementById('graph-view'), g = host.graph;"
F32 = TensorType(DType.F32, (1, 64, 56, 56))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "digits.html"
    assert run(["report", str(DIGITS), "-o", str(path), "--runs", "10", "-q"]) == 0
    return path


@pytest.fixture
def page(browser: Browser, digits: Path) -> Browser:
    browser.messages()
    browser.requests()
    browser.open(digits)
    return browser


def blocks(count: int) -> Graph:
    """Blocks of 11 nodes with a residual, whose names have scopes."""
    graph = Graph()
    values = [graph.add_param(F32, "x")]
    for k in range(count):
        block, i = divmod(k, 11)
        inputs = [values[-1]] + ([values[-11]] if i == 10 else [])
        name = f"/model/stage{block // 40}/layer{block % 40}/op{i}"
        node = Node("Add" if i == 10 else ("Relu", "Tanh", "Neg")[i % 3], inputs, {}, [F32], [name], f"onnx:{name}")
        values.append(graph.insert(node).output)
    graph.outputs = values[-1:]
    return graph


def written(graph: Graph, path: Path) -> Path:
    """A page with nothing but the graph."""
    view = GraphView.of(graph, {})
    section = Section("graph", "Graph", graph_html(view, "A graph"))
    page = document(
        "A graph", [section], data={"graph": view.data()}, css=color_css(), styles=("chart.css", "graph.css"),
        scripts=("place.js", "canvas.js", "graph.js"),
    )  # fmt: skip
    path.write_text(page, encoding="utf-8")
    return path


def test_a_report_asks_for_nothing_and_complains_of_nothing(page: Browser, digits: Path) -> None:
    assert page.js(f"{GRAPH} return host.classList.contains('live')")
    assert page.messages() == []
    assert {url for url in page.requests() if not url.startswith("data:")} == {digits.as_uri()}


def test_the_policy_stops_foreign_scripts_and_requests(page: Browser) -> None:
    page.js("""
        const s = document.createElement('script'); s.textContent = 'window.foreign = 1'; document.body.append(s);
        document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.foreign = 2">');
    """)
    asked = "fetch('http://127.0.0.1:9/').then(() => done('sent'), (e) => done(String(e)))"
    assert "TypeError" in page.wait_js(asked)
    assert page.js("return window.foreign") is None
    assert not [url for url in page.requests() if url.startswith("http")]
    assert any("Content Security Policy" in m for m in page.messages())


def test_hostile_names_do_not_run(browser: Browser, tmp_path: Path) -> None:
    name = "</script><script>window.foreign=1</script><img src=x onerror=window.foreign=2>"
    nodes = [helper.make_node("Relu", ["x"], [name], name)]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in ("x", name))
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], [y])), tmp_path / "m.onnx")
    assert run(["report", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.html"), "--no-time", "-q"]) == 0
    browser.messages()
    browser.open(tmp_path / "m.html")
    browser.js(f"{GRAPH} g.reveal(g.boxes().find((b) => g.data.kinds[b.id] === 'node').id)")
    assert browser.js("return [window.foreign, document.images.length]") == [None, 0]
    assert name in browser.js(f"{GRAPH} return host.querySelector('aside').textContent")
    assert browser.messages() == []


def test_the_graph_works_with_a_keyboard(page: Browser) -> None:
    driver = page.driver
    for _ in range(60):
        ActionChains(driver).send_keys(Keys.TAB).perform()
        if page.js("return document.activeElement.classList.contains('view')"):
            break
    else:
        pytest.fail("the graph is not reached with the Tab key")
    assert page.js("return getComputedStyle(document.activeElement).outlineStyle") != "none"
    seen = []
    for key in (Keys.HOME, *[Keys.ARROW_DOWN] * 4):
        ActionChains(driver).send_keys(key).perform()
        seen.append(page.js(f"{GRAPH} return g.data.strings[g.data.lines[g.scene.selected][0]]"))
    assert seen == ["image", "ConvertLayout", "Conv", "Conv", "Conv"]
    assert "Conv" in page.js(f"{GRAPH} return host.querySelector('.says').textContent")
    details = page.js(f"{GRAPH} return host.querySelector('aside').textContent")
    assert "fuse_conv_bn" in details
    assert "onnx:conv_6" in details
    scale = page.js(f"{GRAPH} return g.camera.k")
    ActionChains(driver).send_keys("+").perform()
    assert page.js(f"{GRAPH} return g.camera.k") > scale
    ActionChains(driver).send_keys("/").perform()
    assert page.js("return document.activeElement.id") == "find"


def test_search_finds_nodes_by_op_name_and_shape(page: Browser) -> None:
    field = page.driver.find_element(By.ID, "find")
    for text, expected in (("softmax", "Softmax"), ("gemm_15", "Linear"), ("pool 64×1", "GlobalAveragePool")):
        field.clear()
        field.send_keys(text, Keys.ARROW_DOWN, Keys.ENTER)
        shown = page.js(
            f"{GRAPH} return [g.data.strings[g.data.lines[g.scene.selected][0]], document.activeElement.className]"
        )
        assert shown[0] == expected
        assert shown[1].startswith("view"), "the focus is in the graph"
    field.clear()
    field.send_keys("nothing of the kind")
    assert page.js(f"{GRAPH} return host.querySelector('.says').textContent") == "0 found"


def test_groups_open_and_close(browser: Browser, tmp_path: Path) -> None:
    browser.open(written(blocks(110), tmp_path / "blocks.html"))
    count = "return document.getElementById('graph-view').graph.boxes().length"
    browser.js("document.querySelector('.close-all').click()")
    closed = browser.js(count)
    browser.js("document.querySelector('.open-all').click()")
    opened = browser.js(count)
    assert closed < 20 < 110 < opened
    browser.js(f"{GRAPH} g.reveal(g.boxes().find((b) => b.open).id); host.querySelector('.view').focus()")
    ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
    assert browser.js(count) == opened - 11
    says = browser.js(f"{GRAPH} return host.querySelector('.says').textContent")
    assert "closed" in says
    ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
    assert browser.js(count) == opened


def test_a_click_selects_and_links_lead_to_the_graph(page: Browser) -> None:
    view = page.driver.find_element(By.CSS_SELECTOR, ".view")
    page.js("document.querySelector('#graph').scrollIntoView()")
    x, y, box = page.js(f"""{GRAPH} const b = g.boxes().find((b) => g.data.kinds[b.id] === 'node');
        return [(b.x + b.w / 2 - g.camera.x) * g.camera.k, (b.y + b.h / 2 - g.camera.y) * g.camera.k, b.id]""")
    size = view.size
    ActionChains(page.driver).move_to_element_with_offset(
        view, int(x - size["width"] / 2), int(y - size["height"] / 2)
    ).click().perform()
    assert page.js(f"{GRAPH} return g.scene.selected") == box
    link = page.driver.find_element(By.CSS_SELECTOR, "#ops table a")
    page.js("arguments[0].click()", link)
    page.wait_js("setTimeout(() => done(1), 300)")
    assert f"#item-{page.js(f'{GRAPH} return g.scene.selected')}" == link.get_attribute("href").partition("html")[2]


def test_colors_follow_the_system_and_the_switch(page: Browser) -> None:
    color = "return getComputedStyle(document.body).backgroundColor"
    page.emulate(prefers_color_scheme="light")
    light = page.js(color)
    page.emulate(prefers_color_scheme="dark")
    dark = page.js(color)
    assert light != dark
    page.driver.find_element(By.ID, "theme").click()
    assert page.js(color) == light
    page.js("localStorage.clear(); delete document.documentElement.dataset.theme")
    page.emulate(prefers_color_scheme="light")


def test_a_report_fits_on_a_phone_and_on_paper(page: Browser, digits: Path) -> None:
    page.command("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=2, mobile=True)
    try:
        page.open(digits)
        assert page.js("return document.documentElement.scrollWidth") == 360
        assert page.js("return document.querySelector('.view').clientWidth") > 300
    finally:
        page.command("Emulation.clearDeviceMetricsOverride")
    pdf = page.command("Page.printToPDF", printBackground=True)["data"]
    assert len(pdf) > 20_000


def test_without_scripts_the_tables_and_the_picture_are_there(browser: Browser, digits: Path) -> None:
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(digits)
        tables = browser.driver.find_elements(By.CSS_SELECTOR, "table")
        assert len(tables) >= 4
        assert all(t.is_displayed() for t in tables if t.find_elements(By.XPATH, "ancestor::details") == [])
        assert browser.driver.find_element(By.CSS_SELECTOR, ".still svg").is_displayed()
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.parametrize("seed", range(4))
def test_scripts_place_boxes_and_lines_where_python_does(seed: int, browser: Browser, tmp_path: Path) -> None:
    chance = random.Random(seed)
    nodes = [([chance.randint(0, 12) for _ in range(chance.randint(1, 4))], chance.choice(SCOPES)) for _ in range(150)]
    view = GraphView.of(Plan(nodes, 20).graph(), {})
    browser.open(written(view.graph, tmp_path / "graph.html"))
    for opened in (view.drawing.outline.groups, [], view.opened):
        want = view.drawing.picture(opened, size_of)
        shown = browser.js(
            f"{GRAPH} g.opened.clear(); for (const id of arguments[0]) g.opened.add(id); g.layOut();"
            "const p = g.scene.picture; return JSON.stringify([p.width, p.height,"
            "p.boxes.map((b) => [b.id, b.x, b.y, b.w, b.h]), p.lines.map((l) => [l.value, l.points])])",
            [item.id for item in opened],
        )
        boxes = [[b.item.id, b.x, b.y, b.width, b.height] for b in want.boxes]
        lines = [[line.value, [list(p) for p in line.points]] for line in want.lines]
        assert json.loads(shown) == [want.width, want.height, boxes, lines]


LOADED = "const n = performance.getEntriesByType('navigation')[0]; return n.domContentLoadedEventEnd"
PAN = """
    const { graph } = document.getElementById('graph-view'), times = [];
    const step = () => {
      graph.camera.x += 12;
      const begin = performance.now();
      graph.paint();
      times.push(performance.now() - begin);
      if (times.length < 40) requestAnimationFrame(step);
      else done(times.sort((a, b) => a - b)[20]);
    };
    requestAnimationFrame(step);
"""


@pytest.mark.parametrize(("count", "seconds"), [(1000, 1), (20_000, 5)])
def test_large_graphs_open_soon_and_move_smoothly(count: int, seconds: float, browser: Browser, tmp_path: Path) -> None:
    path = written(blocks(count), tmp_path / "large.html")
    loads = []
    for _ in range(5):  # the fastest: other processes on the machine do not make it faster
        browser.open(path)
        loads.append(browser.js(LOADED) / 1000)
    assert min(loads) < seconds, loads
    elements = browser.js("return document.getElementsByTagName('*').length")
    assert elements < 3000
    assert path.stat().st_size < 500 * count
    assert browser.wait_js(PAN) < 34
    browser.js("document.querySelector('.open-all').click(); document.getElementById('graph-view').graph.paint()")
    assert browser.js("return document.getElementById('graph-view').graph.boxes().length") > count
    assert browser.wait_js(PAN) < 50, "also with all groups open, and all of them in sight"
    assert browser.js("return document.getElementsByTagName('*').length") < 3000
