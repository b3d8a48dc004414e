"""What workers say of the tools that they publish."""

from tests.waiting import until
from tests.workers.scene import Scene


async def test_a_worker_that_publishes_a_vague_tool_warns(scene: Scene) -> None:
    scene.start_worker()

    async def warnings() -> list[str]:
        lines = scene.log.read_text().splitlines()
        return [line for line in lines if "tool.lint" in line and "'Raise.'" in line]

    (warning,) = await until(warnings)
    assert "vague-description" in warning
    assert "tool=fail" in warning
