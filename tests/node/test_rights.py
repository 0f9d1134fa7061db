"""The rights of a node: what is printed is what is documented."""

from trainwright.core.resources import LEASE
from trainwright.node.rights import LEASE_RIGHTS, RIGHTS, manifests


def test_the_manual_lists_every_right(root):
    told = (root / "docs" / "development.md").read_text().partition("### Rights")[2].splitlines()
    rows = [
        f"| `{'/'.join(filter(None, (resource.plural, part)))}` | `{verb}` | {reason} |"
        for (resource, part), verbs in {**RIGHTS, (LEASE, ""): LEASE_RIGHTS}.items()
        for verb, reason in verbs.items()
    ]

    assert [line for line in told if line.startswith("| `")] == rows


def test_an_account_is_bound_to_both_its_roles():
    kinds = {obj["kind"]: obj for obj in manifests()}

    assert list(kinds) == ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
    account = kinds["ServiceAccount"]["metadata"]
    for binding, role in (("ClusterRoleBinding", "ClusterRole"), ("RoleBinding", "Role")):
        assert kinds[binding]["roleRef"]["name"] == kinds[role]["metadata"]["name"]
        subject = kinds[binding]["subjects"][0]
        assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])
