"""Finding a cluster: kubeconfig files, their merging, and what is said when there is none."""

import textwrap
from pathlib import Path

import httpx2
import pytest

from npu_operator.kube import connection
from npu_operator.kube.clock import SystemClock
from npu_operator.kube.connection import BadConfig, open_connection


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def a_config(path: Path, *, server: str = "https://one:6443", context: str = "one", user: str = "token: t") -> Path:
    return write(
        path,
        f"""
        current-context: {context}
        clusters: [{{name: {context}, cluster: {{server: "{server}"}}}}]
        contexts: [{{name: {context}, context: {{cluster: {context}, user: {context}, namespace: ns-{context}}}}}]
        users: [{{name: {context}, user: {{{user}}}}}]
        """,
    )


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """A machine without any configuration."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def opened(kubeconfig: Path | None = None, context: str | None = None) -> connection.Connection:
    return open_connection(kubeconfig, context, clock=SystemClock())


def complaint(kubeconfig: Path | None = None, context: str | None = None) -> str:
    with pytest.raises(BadConfig) as caught:
        opened(kubeconfig, context)
    return str(caught.value)


def test_a_named_file_wins_over_everything(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(a_config(tmp_path / "env", server="https://env")))
    a_config(tmp_path / "home/.kube/config", server="https://home")
    assert opened(a_config(tmp_path / "named", server="https://named")).url == "https://named"


def test_the_environment_wins_over_the_home_folder(tmp_path, monkeypatch):
    a_config(tmp_path / "home/.kube/config", server="https://home")
    assert opened().url == "https://home"
    monkeypatch.setenv("KUBECONFIG", str(a_config(tmp_path / "env", server="https://env")))
    assert opened().url == "https://env"


def test_several_files_are_merged_and_the_first_to_speak_wins(tmp_path, monkeypatch):
    first = a_config(tmp_path / "a", server="https://a", context="shared")
    second = write(
        tmp_path / "b",
        """
        current-context: other
        clusters: [{name: shared, cluster: {server: "https://b"}}, {name: other, cluster: {server: "https://other"}}]
        contexts: [{name: other, context: {cluster: other, user: shared}}]
        """,
    )
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{first}:{second}")
    assert opened().url == "https://a"
    assert opened().namespace == "ns-shared"
    assert opened(context="other").url == "https://other"


def test_without_any_configuration_one_sentence_says_where_was_looked():
    said = complaint()
    assert "KUBECONFIG is not set" in said
    assert "~/.kube/config does not exist" in said
    assert "not a pod" in said
    assert "\n" not in said


def test_in_a_pod_the_service_account_is_used(tmp_path, monkeypatch):
    account = tmp_path / "account"
    for name, content in (("token", "t"), ("namespace", "npu-operator")):
        write(account / name, content)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    from_account = connection.KubeConfig.from_service_account
    monkeypatch.setattr(connection.KubeConfig, "from_service_account", lambda: from_account(account))
    said = complaint()
    assert "the token in /var/run/secrets" in said  # no CA there: it was tried, and refused with a reason
    monkeypatch.setattr(connection, "verify_cluster", lambda *_, **__: httpx2.create_ssl_context())
    found = opened()
    assert found.url == "https://[fd00::1]:443"
    assert found.namespace == "npu-operator"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "is no YAML"),
        ("- 1", "holds no configuration"),
        ("{}", "has no current context"),
        ("{current-context: x, contexts: [{name: y, context: {cluster: c}}]}", "has no context x; there are: y"),
        ("{current-context: y, contexts: [{name: y, context: {cluster: c}}]}", "names 'c', which is not there"),
        ("{current-context: y, contexts: [{name: y, context: {cluster: 7}}]}", "Expected `str`, got `int`"),
        ("{current-context: y, contexts: [{name: y}]}", "an entry of contexts has no name or no context"),
    ],
)
def test_a_broken_file_is_named_with_what_is_wrong(tmp_path, text, said):
    path = write(tmp_path / "config", text)
    assert said in complaint(path)
    assert str(path) in complaint(path)


def test_a_file_that_is_not_there_is_named(tmp_path, monkeypatch):
    assert complaint(tmp_path / "nope") == f"kubeconfig {tmp_path / 'nope'}: No such file or directory"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nope"))
    assert "there is no such file" in complaint()


def test_a_context_that_is_not_there_is_answered_with_those_that_are(tmp_path):
    path = a_config(tmp_path / "config")
    assert complaint(path, "two") == f"kubeconfig {path} has no context two; there are: one"
    assert "there is no kubeconfig file" in complaint(None, "two")


def test_a_certificate_that_cannot_be_read_is_told(tmp_path):
    path = a_config(tmp_path / "config", user="client-certificate: me.crt, client-key: me.key")
    assert "No such file" in complaint(path)


def test_a_plugin_of_an_unknown_kind_is_refused(tmp_path):
    path = a_config(tmp_path / "config", user="exec: {command: login, apiVersion: client.authentication.k8s.io/v2}")
    assert "speaks client.authentication.k8s.io/v2" in complaint(path)


def test_paths_in_a_file_are_relative_to_it(tmp_path):
    path = a_config(
        tmp_path / "deep/config", user="exec: {command: ./login, apiVersion: client.authentication.k8s.io/v1}"
    )
    assert opened(path).auth._plugin.command == str(tmp_path / "deep/login")
    path = a_config(
        tmp_path / "deep/config", user="exec: {command: login, apiVersion: client.authentication.k8s.io/v1}"
    )
    assert opened(path).auth._plugin.command == "login"


def test_a_proxy_of_the_environment_is_not_used_but_one_of_the_file_is(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("ALL_PROXY", "http://proxy.example:3128")
    path = a_config(tmp_path / "config")
    assert type(opened(path).transport._pool).__name__ == "AsyncConnectionPool"
    path.write_text(path.read_text().replace('server: "https', 'proxy-url: "http://p:1", server: "https'))
    assert type(opened(path).transport._pool).__name__ == "AsyncHTTPProxy"


def test_the_name_of_the_servers_certificate_can_be_given(tmp_path):
    path = a_config(tmp_path / "config")
    assert opened(path).tls_name is None
    path.write_text(path.read_text().replace('server: "https', 'tls-server-name: kubernetes, server: "https'))
    assert opened(path).tls_name == "kubernetes"
