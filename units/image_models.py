"""The database models of the images of nodes, and of the warm images of GPU specs."""

from typing import ClassVar

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from typing_extensions import override

from gpuplatform.formats.image import MAX_LENGTH as MAX_IMAGE
from units.phases import WarmImageState


class NodeImages(models.Model):
    """The images of a node with units at the last comparison.

    A node reports only its largest images, by default 50. An image that is not listed can exist.
    """

    name = models.CharField(max_length=253, primary_key=True, help_text="Name of the node.")
    images = models.JSONField(
        default=list, help_text="Complete names of the images that the node reports, sorted."
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]
        verbose_name_plural = "node images"
        indexes: ClassVar[list[models.Index]] = [
            GinIndex(fields=["images"], opclasses=["jsonb_path_ops"], name="node_images_images"),
        ]

    @override
    def __str__(self) -> str:
        return self.name


class WarmImage(models.Model):
    """The state of a warm image on a node, as the puller of its GPU spec reported it."""

    spec_name = models.CharField(max_length=63, help_text="Name of the GPU spec.")
    node = models.CharField(max_length=253, help_text="Name of the node.")
    image = models.CharField(max_length=MAX_IMAGE, help_text="Complete name of the image.")
    state = models.CharField(
        max_length=8, choices=WarmImageState.choices, help_text="State of the image on the node."
    )
    since = models.DateTimeField(db_default=Now(), help_text="Time at which the state began.")
    cause = models.CharField(
        max_length=64, blank=True, help_text="Code of the problem that prevents the pull."
    )
    message = models.TextField(blank=True, help_text="Message of the cluster about the problem.")

    class Meta:
        ordering: ClassVar[list[str]] = ["spec_name", "image", "node"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["spec_name", "node", "image"], name="warm_image_of_node"
            ),
            models.CheckConstraint(
                condition=Q(state__in=WarmImageState.values), name="warm_image_state_is_known"
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["image", "state"], name="warm_image_by_image"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.image} on {self.node}"
