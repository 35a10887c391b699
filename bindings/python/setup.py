"""The tag of the wheel: any Python 3, but the machine and the C library that the libraries in it were built for."""

import os

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple:
        return "py3", "none", os.environ["LIBPREFIX_WHEEL_PLATFORM"]


setup(cmdclass={"bdist_wheel": Wheel})
