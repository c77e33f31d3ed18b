"""The operations on groups: how far readers of a stream have come, and what retention keeps for them."""

from __future__ import annotations

from flowmesh.api.admission import Principal
from flowmesh.api.service import Service
from flowmesh.base import times
from flowmesh.base.errors import BadRequest, NotFound, TooLarge
from flowmesh.base.limits import GROUP_HOLD_S_MAX, GROUP_LOCATION_CHARS_MAX
from flowmesh.base.names import checked_name
from flowmesh.groups.commands import CommitOffsets, DropGroup
from flowmesh.groups.model import Group, GroupKind
from flowmesh.node.streams import OpenStream
from flowmesh.operations import messages
from flowmesh.operations.messages import Reply


async def commit_group(service: Service, _principal: Principal, request: messages.CommitGroup) -> Reply:
    opened, name = _addressed(service, request)
    _check_offsets(opened, request.offsets)
    command = CommitOffsets(
        opened.stream.id, name, request.offsets, _kind(request.kind), _hold_ns(request.hold_s), _location(request)
    )
    group: Group = await service.carry_out(service.node.groups, command)
    return _description(service, opened, group)


async def describe_group(service: Service, _principal: Principal, request: messages.DescribeGroup) -> Reply:
    opened, name = _addressed(service, request)
    group = service.node.groups.machine.find(opened.stream.id, name)
    if group is None:
        raise _not_found(opened, name)
    return _description(service, opened, group)


async def list_groups(service: Service, _principal: Principal, request: messages.ListGroups) -> Reply:
    opened = service.node.stream((request.tenant, request.namespace, request.name))
    groups = service.node.groups.machine.of_stream(opened.stream.id)

    def describe() -> messages.GroupList:
        ordered = sorted(groups, key=lambda group: group.name)
        return messages.GroupList([_description(service, opened, group) for group in ordered])

    return await service.compute(describe)


async def delete_group(service: Service, _principal: Principal, request: messages.DeleteGroup) -> Reply:
    opened, name = _addressed(service, request)
    try:
        await service.carry_out(service.node.groups, DropGroup(opened.stream.id, name))
    except NotFound:
        raise _not_found(opened, name)
    return messages.Empty()


def _addressed(service: Service, request: messages.GroupRequest) -> tuple[OpenStream, str]:
    name = checked_name(request.group, "group")
    return service.node.stream((request.tenant, request.namespace, request.name)), name


def _not_found(opened: OpenStream, name: str) -> NotFound:
    return NotFound(
        f"stream {opened.stream.path!r} has no group {name!r}.",
        field="group",
        hint="A group is made by its first commit.",
    )


# --- what may be committed ----------------------------------------------------------------------------------------


def _check_offsets(opened: OpenStream, offsets: dict[int, int]) -> None:
    count = len(opened.partitions)
    for number, offset in offsets.items():
        if not 0 <= number < count:
            raise BadRequest(
                f"offsets names partition {number}; stream {opened.stream.path!r} has partitions 0 to {count - 1}.",
                field="offsets",
            )
        end = opened.partitions[number].view.end_offset
        if not 0 <= offset <= end:
            raise BadRequest(
                f"offsets has {offset} for partition {number}, where offsets go from 0 to {end}.",
                field="offsets",
                hint="Commit the next offset to read: one more than that of the last record that is done with.",
            )


def _kind(kind: str) -> str:
    if kind not in list(GroupKind):
        raise BadRequest(
            f"there is no kind {kind[:80]!r} of groups.", field="kind", hint=f"Use {', '.join(GroupKind)}."
        )
    return kind


def _hold_ns(seconds: int | None) -> int | None:
    if seconds is None:
        return None
    if not 1 <= seconds <= GROUP_HOLD_S_MAX:
        raise BadRequest(
            f"hold_s is {seconds}; it goes from 1 to {GROUP_HOLD_S_MAX}.",
            field="hold_s",
            hint="Leave it out to hold nothing.",
        )
    return seconds * times.NANOSECONDS


def _location(request: messages.CommitGroup) -> str | None:
    location = request.location
    if location is not None and len(location) > GROUP_LOCATION_CHARS_MAX:
        raise TooLarge(f"a location has at most {GROUP_LOCATION_CHARS_MAX} characters.", field="location")
    if location is not None and not location.isprintable():
        raise BadRequest("location has characters that cannot be printed.", field="location")
    return location


# --- what is told -------------------------------------------------------------------------------------------------


def _description(service: Service, opened: OpenStream, group: Group) -> messages.GroupDescription:
    stream = opened.stream
    left_ns = group.hold_left_ns(service.node.groups.ran_ns())
    partitions = [_position(opened, number, offset) for number, offset in sorted(group.offsets.items())]
    return messages.GroupDescription(
        tenant=stream.tenant,
        namespace=stream.namespace,
        stream=stream.name,
        group=group.name,
        kind=group.kind,
        created=times.to_text(group.created_ns),
        updated=times.to_text(group.updated_ns),
        hold_s=None if group.hold_ns is None else group.hold_ns // times.NANOSECONDS,
        hold_expires=None if left_ns is None else times.to_text(service.clock.wall_ns() + left_ns),
        holding=left_ns is not None and left_ns > 0,
        location=group.location,
        partitions=partitions,
        lag=sum(position.lag for position in partitions),
    )


def _position(opened: OpenStream, number: int, offset: int) -> messages.GroupPosition:
    view = opened.partitions[number].view
    return messages.GroupPosition(
        partition=number,
        offset=offset,
        end_offset=view.end_offset,
        lag=max(view.end_offset - offset, 0),
        start_offset=view.start_offset,
    )
