"""The kit itself: a real ensemble of three bears the loss of one server, and comes back."""

from pathlib import Path

from tests.support.zookeeper import ZooKeeper


def test_an_ensemble_of_three_serves_without_its_leader_and_takes_it_back(tmp_path: Path) -> None:
    with ZooKeeper(tmp_path, 3) as ensemble:
        former = ensemble.leader()
        former.kill()
        others = [server for server in ensemble.servers if server is not former]
        for server in others:
            server.wait()
        assert ensemble.leader() in others
        former.start(ensemble.servers)
        former.wait()
        assert sorted(server.ask("ruok") for server in ensemble.servers) == ["imok"] * 3


def test_a_paused_server_says_nothing_until_it_goes_on(tmp_path: Path) -> None:
    with ZooKeeper(tmp_path) as ensemble:
        (server,) = ensemble.servers
        assert server.ask("ruok") == "imok"
        ensemble.pause()
        try:
            assert server.ask("ruok") == ""
        finally:
            ensemble.resume()
        assert server.ask("ruok") == "imok"
