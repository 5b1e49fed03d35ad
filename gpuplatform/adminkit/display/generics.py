"""Django's classes that only the type checker knows as generic, as bases of our own."""

from typing import TYPE_CHECKING, Any, TypeAlias

from django import forms
from django.contrib import admin
from django.core.paginator import Paginator

if TYPE_CHECKING:
    ModelAdmin: TypeAlias = admin.ModelAdmin[Any]
    ModelForm: TypeAlias = forms.ModelForm[Any]
    RowPaginator: TypeAlias = Paginator[Any]
    ChoiceField: TypeAlias = forms.ModelChoiceField[Any]
    ManyChoicesField: TypeAlias = forms.ModelMultipleChoiceField[Any]
else:
    ModelAdmin = admin.ModelAdmin
    ModelForm = forms.ModelForm
    RowPaginator = Paginator
    ChoiceField = forms.ModelChoiceField
    ManyChoicesField = forms.ModelMultipleChoiceField
